"""Records of an access point's users, and who may act for others."""
