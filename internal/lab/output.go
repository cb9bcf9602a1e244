package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxLine is the longest piece of output that is kept together; a longer line
// goes out as several.
const maxLine = 64 << 10

// printer writes the ranks' lines, whole and one at a time.
type printer struct {
	mu     sync.Mutex
	prefix bool
}

// stream is one output of one rank on its way to a printer.
type stream struct {
	printer *printer
	prefix  string
	dst     io.Writer
	src     *os.File
	child   *os.File  // the rank's end; closed once the rank has it
	rest    io.Reader // what was in the pipe when the time for it was up; nil before
	done    chan struct{}
}

// stream returns what the rank is to write to for its lines to reach dst: a
// file, and the stream to be run, which is nil if the file is dst itself.
func (p *printer) stream(rank int, dst io.Writer) (*os.File, *stream, error) {
	if file, ok := dst.(*os.File); ok && !p.prefix {
		return file, nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	s := &stream{printer: p, dst: dst, src: r, child: w, done: make(chan struct{})}
	if p.prefix {
		s.prefix = Prefix(rank, IsTerminal(dst) && os.Getenv("NO_COLOR") == "")
	}
	return w, s, nil
}

// Lines returns a file for a process to write to, whose lines go to dst, whole, each by
// one call of Write. The caller closes the file when the process has it, and calls finish
// when that has ended: it returns when the rest of the output has been written. What others
// write to it counts for two seconds from there.
func Lines(dst io.Writer) (child *os.File, finish func(), err error) {
	file, s, err := (&printer{}).stream(0, dst)
	if err != nil {
		return nil, nil, err
	}
	if s == nil { // dst is a file
		return file, func() {}, nil
	}
	go s.copy()
	return file, func() {
		s.finish()
		<-s.done
	}, nil
}

// Prefix returns what every line of rank begins with.
func Prefix(rank int, colour bool) string {
	if !colour {
		return fmt.Sprintf("[%d] ", rank)
	}
	colours := [...]int{36, 33, 32, 35, 34, 31}
	return fmt.Sprintf("\x1b[%dm[%d]\x1b[0m ", colours[rank%len(colours)], rank)
}

// copy moves lines until the rank's end is closed everywhere, or for a while after the
// rank ended.
func (s *stream) copy() {
	defer close(s.done)
	defer s.src.Close()
	in := bufio.NewReaderSize(s, maxLine)
	out := make([]byte, 0, 256)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			out = append(append(out[:0], s.prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			s.printer.write(s.dst, out)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Read reads from the rank, until its end is closed everywhere or a while after it has ended,
// so that a daemon that it left behind with its output open holds up nobody, whether that
// says something or not. All that the rank has said is read, however late.
func (s *stream) Read(b []byte) (int, error) {
	if s.rest == nil {
		n, err := s.src.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		inPipe, err := s.waiting()
		if err == nil {
			err = s.src.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return 0, err
		}
		s.rest = io.LimitReader(s.src, int64(inPipe))
	}
	return s.rest.Read(b)
}

// waiting returns how many bytes are in the pipe: what the rank has said is among them.
func (s *stream) waiting() (n int, err error) {
	raw, err := s.src.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n, errors.Join(failed, err)
}

// finish tells the stream that its rank has ended. The rest of its output has
// been written when done is closed.
func (s *stream) finish() { s.src.SetReadDeadline(time.Now().Add(grace)) }

// write passes one line on. Whoever reads our output may have gone: that is
// no reason to stop a job.
func (p *printer) write(dst io.Writer, line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst.Write(line)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(interface{ Fd() uintptr }) // an os.File, or what wraps one
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
