"""Measurements that anyone can repeat; each prints what it found."""
