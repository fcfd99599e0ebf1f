"""The papers' own criteria and queue model, for comparison."""
