"""Records of the sequence operators."""
