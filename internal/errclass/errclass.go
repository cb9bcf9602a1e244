// Package errclass creates errors that belong to a class. The errors of all rooms belong to the
// same few classes, so that errors.Is recognizes the class of an error from any room.
package errclass

import "strings"

// New returns an error that has its own text and wraps class.
func New(class error, text string) error { return &classed{text, class} }

type classed struct {
	text  string
	class error
}

func (c *classed) Error() string { return c.text }
func (c *classed) Unwrap() error { return c.class }

// With returns an error that has the text of err and wraps both err and class.
func With(class, err error) error { return &also{err, class} }

type also struct {
	error
	class error
}

func (a *also) Unwrap() []error { return []error{a.error, a.class} }

// Within returns err for use in a message that begins with prefix: the same error, with prefix
// removed from its text.
func Within(prefix string, err error) error { return &within{prefix, err} }

type within struct {
	prefix string
	err    error
}

func (w *within) Error() string { return strings.TrimPrefix(w.err.Error(), w.prefix) }
func (w *within) Unwrap() error { return w.err }

// Reword returns err with old replaced by text in its message. old is a name that only the program
// uses, and text is the name that its users know.
func Reword(err error, old, text string) error {
	if err == nil {
		return nil
	}
	return &reworded{err, strings.ReplaceAll(err.Error(), old, text)}
}

type reworded struct {
	err  error
	text string
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }
