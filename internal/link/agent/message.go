package agent

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// A message is its length in four octets and so many octets. Sockets come with the length.
const lengthSize = 4

// maxSockets is how many descriptors may come with a message: those of a link, and one two for
// each block of ports.
const maxSockets = linkSockets + 2*driver.Blocks

// Write sends v as JSON, with descriptors.
func Write(c *net.UnixConn, v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteBytes(c, body, fds...)
}

// WriteBytes sends a message, with descriptors.
func WriteBytes(c *net.UnixConn, body []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	message := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	n, _, err := c.WriteMsgUnix(message, oob, nil)
	if err == nil && n < len(message) {
		_, err = c.Write(message[n:])
	}
	return err
}

// Read receives a message of at most limit bytes into v, and the descriptors that came with
// it, which are the caller's, even if there is an error, and whose closing is passfd's.
func Read(c *net.UnixConn, v any, limit int) (fds []int, err error) {
	body, fds, err := ReadBytes(c, limit)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	return fds, err
}

// ReadBytes is Read for a message that is not JSON.
func ReadBytes(c *net.UnixConn, limit int) (body []byte, fds []int, err error) {
	m, fds, err := Begin(c)
	if err == nil {
		body, err = m.Rest(limit)
	}
	return body, fds, err
}

// Incoming is a message that has begun to come.
type Incoming struct {
	conn   *net.UnixConn
	uid    uint32 // of the sender
	length [lengthSize]byte
	has    int // bytes of length
}

// Begin waits for a message to begin. It returns the descriptors that came with it, which are
// the caller's, as those of Read.
func Begin(c *net.UnixConn) (m *Incoming, fds []int, err error) {
	who, err := passfd.PeerOf(c)
	if err != nil {
		return nil, nil, err
	}
	m = &Incoming{conn: c, uid: who.Uid}
	got, err := passfd.Receive(c, m.uid, m.length[:])
	switch {
	case err != nil:
		return nil, nil, err
	case len(got.FDs) > maxSockets:
		passfd.Close(m.uid, got.FDs...)
		return nil, nil, fmt.Errorf("transport: %d descriptors came by the agent's socket, more than %d: %w", len(got.FDs), maxSockets, unix.EMSGSIZE)
	case got.N == 0:
		return nil, got.FDs, io.EOF
	}
	m.has = got.N
	return m, got.FDs, nil
}

// Read implements io.Reader for what follows the beginning, with which no descriptors may come.
func (m *Incoming) Read(b []byte) (int, error) {
	got, err := passfd.Receive(m.conn, m.uid, b)
	switch {
	case err != nil:
		return 0, err
	case len(got.FDs) > 0:
		passfd.Close(m.uid, got.FDs...)
		return 0, fmt.Errorf("transport: descriptors came within a message of the agent's socket: %w", unix.EPROTO)
	case got.N == 0:
		return 0, io.EOF
	}
	return got.N, nil
}

// firstRoom is how much room is made for a message at first.
const firstRoom = 4 << 10

// Rest receives the rest of a message, and returns its bytes, of which there may be limit at
// most. Room for them is made as they come: to announce many costs the receiver nothing.
func (m *Incoming) Rest(limit int) (body []byte, err error) {
	if _, err = io.ReadFull(m, m.length[m.has:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(m.length[:]))
	if size > int64(limit) {
		return nil, fmt.Errorf("transport: a message of the agent's socket has %d octets, more than %d: %w", size, limit, unix.EMSGSIZE)
	}
	for left := int(size); left > 0; left = int(size) - len(body) {
		has := len(body)
		body = append(body, make([]byte, min(left, max(firstRoom, has)))...)
		if n, err := io.ReadFull(m, body[has:]); err != nil {
			return body[:has+n], err
		}
	}
	return body, nil
}

// closePassed closes descriptors that came by c.
func closePassed(c *net.UnixConn, fds []int) {
	uid := uint32(passfd.Unknown)
	if who, err := passfd.PeerOf(c); err == nil {
		uid = who.Uid
	}
	passfd.Close(uid, fds...)
}

// CloseAll closes this process's own descriptors. Those that another process has passed are
// closed by package passfd.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
