"""What all pages share: their addresses (navigation), the theme, and small pieces of HTML and text (blocks)."""
