"""Pictures of the app for people: those of the start page's gallery, and screenshots of every page."""
