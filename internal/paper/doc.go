// Package paper repeats the measurements of the papers that Bobnet follows, in virtual
// time, and says how far it is from what they have published.
//
// A Paper has items: each is one published number, or one thing that a figure shows. The
// kind of an item says what our value beside it is worth:
//
//   - input: a constant of the model was chosen so that this number comes out, or is it;
//   - output: it comes out of programs that run, with all constants fixed by inputs;
//   - derived: it is arithmetic of inputs;
//   - shape: the paper has no number, but says or draws what holds.
//
// What is arithmetic of other items, inputs or not, has a From, which computes our value of
// theirs.
//
// A Profile is the hardware of a paper: constants, each with the one input that fixed it,
// or with the reason why there is none. An Experiment runs programs on a profile and sets
// the values of items. Everything is deterministic: virtual time, fixed seeds; but for what
// is said to be measured on the machine that runs this.
package paper
