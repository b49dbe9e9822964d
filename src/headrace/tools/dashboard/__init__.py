"""The page: a cluster in a browser, live.  Loaded only where somebody asks for it; files are served from here."""
