"""Records of the random operators."""
