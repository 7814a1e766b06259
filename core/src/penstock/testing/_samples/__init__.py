"""Small connectors to begin from.

``penstock new`` writes them under another name; the kit's own tests prove them as they are.
"""
