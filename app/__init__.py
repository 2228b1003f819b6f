"""The browser console. Empty until the control plane has something to show."""
