package test

import (
	"bufio"
	"io"
	"sync"
	"testing"
	"time"
)

// printed is what a process has printed and nobody has read, by lines: however much that is,
// because a process whose output waits for a reader does not end.
type printed struct {
	mu    sync.Mutex
	lines []string
	over  bool          // no more lines come
	more  chan struct{} // has an element when there may be a line, or no more of them
}

// read reads lines from r until it ends.
func (p *printed) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		p.add(s.Text(), false)
	}
	io.Copy(io.Discard, r) // what has no end of line in a scanner's buffer
	p.add("", true)
}

func (p *printed) add(line string, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over = over; !over {
		p.lines = append(p.lines, line)
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// take returns the next line, and whether there will be none, if there is either.
func (p *printed) take() (line string, ok, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "", false, p.over
	}
	line, p.lines = p.lines[0], p.lines[1:]
	return line, true, false
}

// next waits for the next line, and says whether there was one and whether there can be
// another.
func (p *printed) next(limit time.Duration) (line string, ok, over bool) {
	end := time.After(limit)
	for {
		if line, ok, over = p.take(); ok || over {
			return line, ok, over
		}
		select {
		case <-p.more:
		case <-end:
			return "", false, false
		}
	}
}

// skip passes over what has been printed so far.
func (p *printed) skip() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = nil
}

// TestPrinted: whoever prints never waits for a reader, who gets every line in its order, those
// that were skipped apart, and then the end.
func TestPrinted(t *testing.T) {
	r, w := io.Pipe()
	p := &printed{more: make(chan struct{}, 1)}
	done := make(chan bool)
	go func() {
		p.read(r)
		close(done)
	}()
	const many = 5000
	for range many {
		io.WriteString(w, "old\n")
	}
	for range many { // the last may be on its way
		if line, ok, _ := p.next(patience); !ok || line != "old" {
			t.Fatalf("a line is %q, %v", line, ok)
		}
	}
	if _, ok, over := p.next(0); ok || over {
		t.Fatal("there is a line, or an end, where nothing was printed")
	}
	io.WriteString(w, "one\ntwo\n")
	w.Close()
	<-done
	if line, ok, _ := p.next(patience); !ok || line != "one" {
		t.Fatalf("the next line is %q, %v", line, ok)
	}
	p.skip()
	if line, ok, over := p.next(patience); ok || !over {
		t.Fatalf("after the end there is %q, %v", line, ok)
	}
}
