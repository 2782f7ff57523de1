"""Saliency maps: which parts of an input a model's score depends on, and how.

The methods are plain Python over what an engine offers (`protocol`): a model run on some examples, its score
differentiated towards inputs and features, with another rule for its activations where a method asks for one.
"""
