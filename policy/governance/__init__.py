"""Rules of the audit: anchors and exports."""
