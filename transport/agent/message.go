package agent

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// A message is its length in four octets and so many octets. Sockets come with the length.
const lengthSize = 4

// maxSockets is how many descriptors may come with a message: those of a link, and one for
// each block of ports.
const maxSockets = Sockets + 64

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

// Read receives a message of at most limit octets into v, and the descriptors that came with
// it, which are the caller's even if there is an error.
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
	length [lengthSize]byte
	has    int // octets of length
}

// Begin waits for a message to begin. It returns the descriptors that came with it, which are
// the caller's even if there is an error.
func Begin(c *net.UnixConn) (m *Incoming, fds []int, err error) {
	m = &Incoming{conn: c}
	oob := make([]byte, unix.CmsgSpace(4*maxSockets))
	n, oobn, _, _, err := c.ReadMsgUnix(m.length[:], oob)
	if err != nil {
		return nil, nil, err
	}
	if fds, err = rights(oob[:oobn]); err != nil {
		return nil, fds, err
	}
	if n == 0 {
		return nil, fds, io.EOF
	}
	m.has = n
	return m, fds, nil
}

// firstRoom is how much room is made for a message at first.
const firstRoom = 4 << 10

// Rest receives the rest of a message, and returns its octets, of which there may be limit at
// most. Room for them is made as they come: to announce many costs the receiver nothing.
func (m *Incoming) Rest(limit int) (body []byte, err error) {
	if _, err = io.ReadFull(m.conn, m.length[m.has:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(m.length[:]))
	if size > int64(limit) {
		return nil, fmt.Errorf("transport: a message of the agent's socket has %d octets, more than %d: %w", size, limit, unix.EMSGSIZE)
	}
	for left := int(size); left > 0; left = int(size) - len(body) {
		has := len(body)
		body = append(body, make([]byte, min(left, max(firstRoom, has)))...)
		if n, err := io.ReadFull(m.conn, body[has:]); err != nil {
			return body[:has+n], err
		}
	}
	return body, nil
}

// rights returns the descriptors of control messages.
func rights(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // of another kind
		}
		fds = append(fds, some...)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds, nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
