// Package paper repeats the measurements of the papers that Bobnet follows, in virtual time, and
// reports how far its results are from the published ones.
//
// A Paper has items: each is one published number, or one property that a figure shows. The kind of
// an item tells what our value for it is worth:
//
//   - input: a constant of the model is this number, or was chosen so that this number results;
//   - output: programs that run produce it, with all constants fixed by inputs;
//   - derived: it is arithmetic of inputs;
//   - shape: the paper has no number, but states or draws a property.
//
// An item that is arithmetic of other items, inputs or not, has a From, which computes our value
// from theirs.
//
// A Profile is the hardware of a paper: constants, each with the one input that fixed it, or with
// the reason why there is none. An Experiment runs programs on a profile and sets the values of
// items. Everything is deterministic, with virtual time and fixed seeds, except values that are
// marked as measured on the machine that runs this.
package paper
