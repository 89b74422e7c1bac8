"""The `fleet` commands: many datasets under one policy."""
