package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/pmi"
)

// Protocol is the version of the protocol between head and nodes.
const Protocol = 3

// message is one line between head and node. Exactly one field is set.
type message struct {
	Hello   *Inventory    `json:",omitempty"` // from a node, first
	Start   *start        `json:",omitempty"` // to a node
	Release *fence        `json:",omitempty"` // to a node: the barrier ends
	Beat    time.Duration `json:",omitempty"` // to a node: interval of keep-alive messages
	Signal  int           `json:",omitempty"` // to a node, for all its ranks
	Alive   bool          `json:",omitempty"` // from a node: keep-alive
	Line    *line         `json:",omitempty"` // from a node: output of a rank
	Waits   bool          `json:",omitempty"` // from a node: one of its ranks is in a barrier
	Fence   *fence        `json:",omitempty"` // from a node: all its ranks are in the barrier
	Abort   *ending       `json:",omitempty"` // from a node: a rank ends the job
	Exit    *ending       `json:",omitempty"` // from a node: a rank has ended

	Open    bool              `json:",omitempty"` // to a node: open a NIC to test paths
	End     *doctor.EndFacts  `json:",omitempty"` // from a node: its NIC is open
	Reach   []doctor.EndFacts `json:",omitempty"` // to a node: send frames to these NICs, those of all nodes
	Reached *reached          `json:",omitempty"` // from a node: the results
}

// start is the work of a node.
type start struct {
	Job     string
	Size    int
	Ranks   []int // of this node
	Mapping string
	Dir     string
	Argv    []string
	Env     []string // in addition to the node's own environment
	Bind    bool     `json:",omitempty"` // bind each rank to its own processor
}

type fence struct{ Puts []pmi.Word }

type line struct {
	Rank int
	Err  bool // from standard error
	Text []byte
}

// ending describes how a rank ended, or how it wants all ranks to end.
type ending struct {
	Rank  int
	Code  int    // exit code, or 128 plus the signal
	State string // the same in words
}

// greeting starts a node's first line. It distinguishes this line from earlier output of the host's
// shell.
const greeting = "bobnet-node "

// Limits of a node's output, in bytes.
const (
	maxNoise   = 64 << 10 // before its greeting
	maxMessage = 16 << 20
)

// writer sends messages. It may be shared between goroutines.
type writer struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *writer) send(m *message) error { return w.line("", m) }

func (w *writer) line(prefix string, m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(append([]byte(prefix), text...), '\n'))
	return err
}

// errNoNode is the error for output that is not a node's.
var errNoNode = errors.New("peer is not a bobnet node")

// greet returns a node's hello, and skips the output before it.
func greet(in *bufio.Reader) (*Inventory, error) {
	for noise := 0; noise <= maxNoise; {
		text, err := readLine(in, maxNoise)
		noise += len(text)
		if rest, ok := bytes.CutPrefix(text, []byte(greeting)); ok && err == nil {
			var m message
			if err := json.Unmarshal(rest, &m); err != nil || m.Hello == nil {
				return nil, fmt.Errorf("%w: received %.100q", errNoNode, rest)
			}
			return m.Hello, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: more than %d bytes of other output before its greeting", errNoNode, maxNoise)
}

// receive returns the next message.
func receive(in *bufio.Reader) (*message, error) {
	text, err := readLine(in, maxMessage)
	if err != nil {
		return nil, err
	}
	m := &message{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: received %.100q", errNoNode, text)
	}
	return m, nil
}

// readLine returns a line without its newline.
func readLine(in *bufio.Reader, most int) (text []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case err == nil:
			return text[:len(text)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		case len(text) > most:
			return text, fmt.Errorf("%w: line of more than %d bytes", errNoNode, most)
		}
	}
}
