"""Files that hold arrays and settings alone: rare events, filters, sensitivities, cells."""
