package main

import (
	"os"
	"sync"
)

// stdout is the standard output, of verbs and of the ranks that they start. It keeps the
// first error of writing, which becomes the command's if it has no other.
var stdout = &keeping{File: os.Stdout}

// keeping is a file that keeps the first error of writing to it. It may be shared between
// goroutines.
type keeping struct {
	*os.File
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *keeping) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	o.keep(err)
	return n, err
}

// WriteString implements io.StringWriter.
func (o *keeping) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

func (o *keeping) keep(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// first returns the first error of writing, nil if there was none.
func (o *keeping) first() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
