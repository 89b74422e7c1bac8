"""Fleet run: maintain many datasets concurrently, each under a lease, within a deadline and a budget."""
