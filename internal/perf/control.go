package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The messages between the halves.
const (
	opOpen  = "open"  // client: open a connection for Case
	opRun   = "run"   // client: Warm round trips, then Count messages of Case.Test
	opClose = "close" // client: close it
	opQuit  = "quit"  // client: end
	opText  = "text"  // either: the text of Exchange
	opDone  = "done"  // either: it worked
	opFail  = "fail"  // either: the operation failed, for the reason in Text
)

// message is one line on the control channel.
type message struct {
	Op       string        `json:"op"`
	Case     *Case         `json:"case,omitempty"`
	Warm     int           `json:"warm,omitempty"`
	Count    int           `json:"count,omitempty"`
	Sample   time.Duration `json:"sample,omitempty"` // intended duration of Count messages
	Text     string        `json:"text,omitempty"`
	Lost     bool          `json:"lost,omitempty"` // in opFail: the error is errLost
	Counters Counters      `json:"counters,omitzero"`
}

// control is one end of the control channel: lines of JSON over any stream of bytes. Only one
// goroutine may use it.
type control struct {
	enc *json.Encoder
	dec *json.Decoder
}

func newControl(rw io.ReadWriter) *control {
	return &control{enc: json.NewEncoder(rw), dec: json.NewDecoder(rw)}
}

// errControl is wrapped by every error of the control channel, after which nothing more can be
// measured.
var errControl = errors.New("perf: control channel")

func (c *control) send(m message) error {
	if err := c.enc.Encode(m); err != nil {
		return fmt.Errorf("%w: %w", errControl, err)
	}
	return nil
}

func (c *control) recv() (m message, err error) {
	if err = c.dec.Decode(&m); errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: connection to the other half lost: %w", errControl, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", errControl, err)
	}
	return m, nil
}

// sendResult sends the result of an operation to the other half.
func (c *control) sendResult(err error, counters Counters) error {
	if err != nil {
		return c.send(message{Op: opFail, Text: err.Error(), Lost: errors.Is(err, errLost)})
	}
	return c.send(message{Op: opDone, Counters: counters})
}

// peerError is the error of the other half.
type peerError struct {
	text string
	lost bool
}

// failure returns the error in m, an opFail.
func (m *message) failure() *peerError { return &peerError{text: m.Text, lost: m.Lost} }

func (e *peerError) Error() string { return "perf: the other half: " + e.text }

// Is makes a loss that the other half has detected match errLost.
func (e *peerError) Is(target error) bool { return e.lost && target == errLost }
