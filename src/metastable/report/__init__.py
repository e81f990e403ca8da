"""Self-contained HTML pages made from records."""
