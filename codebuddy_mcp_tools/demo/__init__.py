"""A running agent over two small real servers, with a scripted model where no real one is to be had."""
