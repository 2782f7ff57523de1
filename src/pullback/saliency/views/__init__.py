"""Views of saliency maps: in the terminal, as picture, as page, with Matplotlib."""
