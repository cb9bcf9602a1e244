package launch

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// saidFailed matches a keep.FailedLine in what mpiexec prints. Hydra puts a prefix before it, and it
// may come within a line of another rank.
var saidFailed = regexp.MustCompile(`\[\d+\] bobnet run: rank (\d{1,9}) on host (\S+) ended with exit code (\d{1,3}), which ends the job\n$`)

// saidBy matches a line of a rank in what mpiexec prints.
var saidBy = regexp.MustCompile(`^\[(\d{1,9})\] `)

// maxSaid bounds how much of a line is kept: its last bytes.
const maxSaid = 512

// failing passes on what mpiexec prints to its standard error, and tells first, which has room
// for it, of the first rank that says there that it has failed.
type failing struct {
	to    io.Writer
	first chan *HydraError
	named *named
	told  bool
	line  []byte // the last bytes of the line that is under way
}

// Write implements io.Writer.
func (f *failing) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		if f.told {
			break
		}
		f.note(part)
	}
	return f.to.Write(b)
}

// note takes a line, or a part of one.
func (f *failing) note(part []byte) {
	f.line = append(f.line, part...)
	f.line = f.line[max(len(f.line)-maxSaid, 0):]
	if part[len(part)-1] != '\n' {
		return
	}
	if said := saidFailed.FindSubmatch(f.line); said != nil {
		code, _ := strconv.Atoi(string(said[3])) // digits
		rank, _ := strconv.Atoi(string(said[1]))
		f.first <- &HydraError{State: fmt.Sprintf("rank %s on host %s failed first: exit code %d", said[1], said[2], code), Code: code, Named: f.named.by(rank)}
		f.told = true
	} else if said := saidBy.FindSubmatch(f.line); said != nil {
		rank, _ := strconv.Atoi(string(said[1]))
		f.named.note(rank, f.line)
	}
	f.line = f.line[:0]
}
