"""One widget a file; each draws with the line API and is handed finished facts, never a source or a store."""
