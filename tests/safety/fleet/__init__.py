"""The campaign of the fleet plane: its processes are killed at random while others write."""
