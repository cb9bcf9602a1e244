// Package paper repeats the measurements of the papers that Bobnet follows, in virtual time, and
// reports how far its results are from the published ones.
//
// A Paper has items: each is one published number, or one property that a figure shows. The kind of
// an item states what our value shows:
//
//   - input: a constant of the model is this number, or was chosen so that this number results;
//   - output: the number results from programs that ran with all constants fixed by inputs;
//   - derived: the number is computed from inputs;
//   - shape: the paper has no number, but states or draws a property.
//
// An item that is computed from other items has a From, which computes our value from the values
// of these items.
//
// A Profile is the hardware of a paper: constants, each with the one input that fixed it, or with
// the reason why no input fixed it. An Experiment runs programs on a profile and sets the values of
// items. Everything is deterministic, with virtual time and fixed seeds, except values that are
// marked as measured on the machine that runs this.
package paper
