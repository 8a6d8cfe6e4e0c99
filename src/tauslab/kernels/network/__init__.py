"""A checked network as C++ (`codegen`), after its laws are sorted into kinds (`lowering`).

The text is csrc's model.h, which every ensemble kernel includes. Engines lay out `tables` of a
network that is too large for text.
"""
