package vrpc

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// The protocol's constants (RFC 5531 section 9).
const (
	rpcVersion = 2
	msgCall    = 0
	msgReply   = 1

	msgAccepted = 0
	msgDenied   = 1
)

// callHeader is the header of a call message. The bodies of the authentication, and the arguments,
// remain in the message.
type callHeader struct {
	xid, rpcvers, prog, vers, proc uint32
	cred, verf                     OpaqueAuth
	args                           []byte
}

// A headerFault is an error in the header of a call.
type headerFault int

const (
	headerFine    headerFault = iota
	headerNoCall              // not a call message: there is no one to answer
	headerVersion             // another version of the RPC protocol
	headerCred                // the credential cannot be decoded
	headerVerf                // the verifier cannot be decoded
)

// decode decodes the header of the message that d was reset to.
func (h *callHeader) decode(d *xdr.Decoder) headerFault {
	*h = callHeader{xid: d.Uint()}
	if d.Uint() != msgCall || d.Err() != nil {
		return headerNoCall
	}
	h.rpcvers = d.Uint()
	if d.Err() == nil && h.rpcvers != rpcVersion {
		return headerVersion
	}
	h.prog, h.vers, h.proc = d.Uint(), d.Uint(), d.Uint()
	if d.Err() != nil {
		return headerNoCall
	}
	if h.cred.decode(d); d.Err() != nil {
		return headerCred
	}
	if h.verf.decode(d); d.Err() != nil {
		return headerVerf
	}
	h.args = d.Rest()
	return headerFine
}

// encodeCall encodes the header of a call up to its credential.
func encodeCall(e *xdr.Encoder, xid, prog, vers, proc uint32) {
	e.Uint(xid)
	e.Uint(msgCall)
	e.Uint(rpcVersion)
	e.Uint(prog)
	e.Uint(vers)
	e.Uint(proc)
}

// encodeAccepted encodes the header of a reply to an accepted call.
func encodeAccepted(e *xdr.Encoder, xid uint32, verf *OpaqueAuth, stat AcceptStat) {
	e.Uint(xid)
	e.Uint(msgReply)
	e.Uint(msgAccepted)
	verf.encode(e)
	e.Uint(uint32(stat))
}

// encodeMismatch encodes the reply to a call of another version of the RPC protocol.
func encodeMismatch(e *xdr.Encoder, xid uint32) {
	e.Uint(xid)
	e.Uint(msgReply)
	e.Uint(msgDenied)
	e.Uint(uint32(RPCMismatch))
	e.Uint(rpcVersion)
	e.Uint(rpcVersion)
}

// encodeAuthError encodes the reply to a call whose authentication is refused.
func encodeAuthError(e *xdr.Encoder, xid uint32, stat AuthStat) {
	e.Uint(xid)
	e.Uint(msgReply)
	e.Uint(msgDenied)
	e.Uint(uint32(AuthError))
	e.Uint(uint32(stat))
}

// replyHeader is the header of a reply. The body of the verifier remains in the message.
type replyHeader struct {
	xid       uint32
	verf      OpaqueAuth // if the call was accepted
	stat      error      // nil if the procedure ran: the results follow
	low, high uint32
}

// decode decodes the header of the message that d was reset to. If the message is not a reply of
// RFC 5531, d has an error or decode returns false.
func (h *replyHeader) decode(d *xdr.Decoder) bool {
	*h = replyHeader{xid: d.Uint()}
	if d.Uint() != msgReply {
		return false
	}
	switch d.Uint() {
	case msgAccepted:
		h.verf.decode(d)
		return h.decodeAccepted(d)
	case msgDenied:
		return h.decodeDenied(d)
	}
	return false
}

func (h *replyHeader) decodeAccepted(d *xdr.Decoder) bool {
	stat := AcceptStat(d.Uint())
	if stat > SystemErr {
		return false
	}
	if stat == ProgMismatch {
		h.low, h.high = d.Uint(), d.Uint()
	}
	if stat != Success {
		h.stat = stat
	}
	return d.Err() == nil
}

func (h *replyHeader) decodeDenied(d *xdr.Decoder) bool {
	switch stat := RejectStat(d.Uint()); stat {
	case RPCMismatch:
		h.low, h.high = d.Uint(), d.Uint()
		h.stat = stat
	case AuthError:
		h.stat = AuthStat(d.Uint())
	default:
		return false
	}
	return d.Err() == nil
}

// messageXID returns the transaction id at the start of a message, and whether the message is of
// the kind. Messages that are too short have no kind.
func messageXID(msg []byte, kind uint32) (xid uint32, ok bool) {
	if len(msg) < 8 || binary.BigEndian.Uint32(msg[4:]) != kind {
		return 0, false
	}
	return binary.BigEndian.Uint32(msg), true
}
