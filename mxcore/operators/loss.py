"""Records of the loss operators."""
