"""The store on real files: each noun, faults, time going by."""
