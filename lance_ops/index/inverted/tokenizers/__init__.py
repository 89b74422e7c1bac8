"""From strings to the words that an index holds, as pylance cuts, drops and changes them."""
