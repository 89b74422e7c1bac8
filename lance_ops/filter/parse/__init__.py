"""From SQL text to a typed tree: syntax, scope, names, types, constants, calls and conditions."""
