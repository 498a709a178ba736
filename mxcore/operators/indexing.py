"""Records of the indexing operators."""
