"""The dashboard: its files and its sessions."""
