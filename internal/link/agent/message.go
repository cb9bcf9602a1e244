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

// A message is its length in four bytes, followed by its contents. Sockets accompany the length.
const lengthSize = 4

// maxSockets is the maximum number of descriptors with a message: those of a link, and two for each
// block of ports.
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

// Read receives a message of at most limit bytes into v, and its descriptors. The caller owns these
// even after an error, and must close them by package passfd.
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

// Incoming is a message whose beginning has been received.
type Incoming struct {
	conn   *net.UnixConn
	uid    uint32 // of the sender
	length [lengthSize]byte
	has    int // bytes of length received
}

// Begin waits for the beginning of a message. It returns the message's descriptors, which the
// caller owns as with Read.
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
		return nil, nil, fmt.Errorf("transport: received %d descriptors on the agent's socket, more than %d: %w", len(got.FDs), maxSockets, unix.EMSGSIZE)
	case got.N == 0:
		return nil, got.FDs, io.EOF
	}
	m.has = got.N
	return m, got.FDs, nil
}

// Read implements io.Reader for the rest of the message, which must not contain descriptors.
func (m *Incoming) Read(b []byte) (int, error) {
	got, err := passfd.Receive(m.conn, m.uid, b)
	switch {
	case err != nil:
		return 0, err
	case len(got.FDs) > 0:
		passfd.Close(m.uid, got.FDs...)
		return 0, fmt.Errorf("transport: received descriptors in the middle of a message on the agent's socket: %w", unix.EPROTO)
	case got.N == 0:
		return 0, io.EOF
	}
	return got.N, nil
}

// firstRoom is the size of the first buffer for a message.
const firstRoom = 4 << 10

// Rest receives the rest of a message, at most limit bytes, and returns it. It allocates memory
// only as bytes arrive, so announcing a long message costs the receiver nothing.
func (m *Incoming) Rest(limit int) (body []byte, err error) {
	if _, err = io.ReadFull(m, m.length[m.has:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(m.length[:]))
	if size > int64(limit) {
		return nil, fmt.Errorf("transport: message of %d bytes on the agent's socket, more than %d: %w", size, limit, unix.EMSGSIZE)
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

// closePassed closes descriptors that were received by c.
func closePassed(c *net.UnixConn, fds []int) {
	uid := uint32(passfd.Unknown)
	if who, err := passfd.PeerOf(c); err == nil {
		uid = who.Uid
	}
	passfd.Close(uid, fds...)
}

// CloseAll closes this process's own descriptors. Package passfd closes those that another process
// has passed.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
