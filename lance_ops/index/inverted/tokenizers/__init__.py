"""From texts to the words that an index holds, as the peer cuts, drops and changes them."""
