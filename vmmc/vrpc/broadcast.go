package vrpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// maxAnswers is the maximum number of servers whose replies one broadcast distinguishes.
const maxAnswers = 1 << 16

// Broadcast sends a call by UDP to several addresses, which may be broadcast addresses (RFC 5531
// section 8.4.2), and repeats it like any call over UDP. For each server that replies with success
// it decodes the results into res, and calls each with the server's address. It returns nil when
// each returns false. It returns the context's error when the context ends, which is the usual end
// of a broadcast, or an error if nothing can be sent. Package rpcbind has a broadcast for programs
// whose ports are unknown.
func Broadcast(ctx context.Context, to []netip.AddrPort, prog, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, each func(from netip.AddrPort) bool, cfg *ClientConfig) error {
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	b := &broadcast{conn: conn, to: to, client: NewClient(nil, prog, vers, cfg), proc: proc, answered: make(map[netip.AddrPort]struct{})}
	if cfg == nil {
		cfg = &ClientConfig{}
	}
	b.wait, b.maxWait = cmp.Or(cfg.Retry, defaultRetry), cmp.Or(cfg.MaxRetry, defaultMaxRetry)
	b.x = &Exchange{room: make([]byte, headroom)}
	b.cred, b.verf = b.client.auth.Authenticate()
	if err := b.client.encode(ctx, b.x, proc, args, b.cred, b.verf); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return b.run(ctx, res, each)
}

// broadcast is a call to many servers.
type broadcast struct {
	conn          *net.UDPConn
	to            []netip.AddrPort
	client        *Client
	proc          uint32
	cred, verf    OpaqueAuth
	x             *Exchange
	wait, maxWait time.Duration
	answered      map[netip.AddrPort]struct{}
}

// run repeats the call, and receives replies meanwhile.
func (b *broadcast) run(ctx context.Context, res xdr.Unmarshaler, each func(netip.AddrPort) bool) error {
	buf := make([]byte, maxDatagram+1)
	for ; ; b.wait = nextRetry(b.wait, b.maxWait) {
		if err := b.send(); err != nil {
			return err
		}
		for until := time.Now().Add(b.wait); ; {
			b.conn.SetReadDeadline(until)
			if err := ctx.Err(); err != nil { // after the deadline was set, because the end of ctx sets it, too
				return err
			}
			n, from, err := b.conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				if !time.Now().Before(until) {
					break
				}
				if ctx.Err() == nil && !pause(ctx) {
					return ctx.Err()
				}
				continue
			}
			if b.decodeReply(buf[:n], unmap(from), res) && !each(unmap(from)) {
				return nil
			}
		}
	}
}

// send sends the call to every address. It returns an error if no address can be reached.
func (b *broadcast) send() error {
	var errs []error
	for _, to := range b.to {
		if _, err := b.conn.WriteToUDPAddrPort(b.x.Message, to); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(b.to) {
		return &TransportError{Addr: "broadcast", Err: errors.Join(append(errs, errors.New("no address to send to"))...)}
	}
	return nil
}

// decodeReply decodes a reply if it is the first one from its server, and a success.
func (b *broadcast) decodeReply(msg []byte, from netip.AddrPort, res xdr.Unmarshaler) bool {
	xid, ok := messageXID(msg, msgReply)
	if _, again := b.answered[from]; !ok || again || xid != b.x.XID || len(b.answered) == maxAnswers {
		return false
	}
	b.x.Reply = msg
	if b.client.decode(b.x, b.proc, b.cred, res, false) != nil {
		return false
	}
	b.answered[from] = struct{}{}
	return true
}
