"""Secure computation behind one interface: shares in, opened numbers out."""
