"""The StockPool controller."""
