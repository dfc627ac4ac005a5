"""The paper's tables and figures as recipes, and the store of finished trials."""
