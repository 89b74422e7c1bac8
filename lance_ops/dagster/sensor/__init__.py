"""The manifest sensor: a look at many datasets, what is new in them, and what that starts."""
