package vipl

import (
	"fmt"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// Environment variables for the key that encrypts frames: the path of a key file, or the key
// itself. Open uses them for every NIC without Config.Key and Config.Link. Other programs of the
// same user can read the environment. At most one of the two may be set.
//
//	bobnet key > /etc/bobnet.key && chmod 600 /etc/bobnet.key && export BOBNET_KEY_FILE=/etc/bobnet.key
const (
	EnvKeyFile = "BOBNET_KEY_FILE"
	EnvKey     = "BOBNET_KEY"
)

// keyWanted returns the source of keys that the environment selects, or nil.
func keyWanted() (seal.Source, error) {
	path, text := os.Getenv(EnvKeyFile), os.Getenv(EnvKey)
	switch {
	case path != "" && text != "":
		return nil, opError("read "+EnvKeyFile, ErrArgument, "%s is also set (set only one of them)", EnvKey)
	case path != "":
		return seal.File(path), nil
	case text != "":
		return seal.Text(text), nil
	}
	return nil, nil
}

// SealStats returns the link's counters of encrypted frames, and reports whether frames are
// encrypted.
func (n *NIC) SealStats() (stats seal.Stats, sealed bool) {
	l, ok := transport.As[*seal.Link](n.m.Link)
	if !ok {
		return seal.Stats{}, false
	}
	return l.SealStats(), true
}

// maxForeignSealed is the maximum number of stations with encrypted frames that a NIC without a
// key remembers.
const maxForeignSealed = 64

// receiveSealed is called with an encrypted frame that this NIC cannot decrypt, because it has no
// key. It logs this once for each station that it remembers.
func (n *NIC) receiveSealed(frame []byte) {
	src := ethertype.MAC(frame[framing.OffsetSrc:])
	if _, _, known := n.sealedBy.Get(src); !known && n.sealedBy.Note(src, struct{}{}, n.m.Link.Now()) {
		n.log.Warn("no common key with a station", "station", src, "why", noKey)
	}
}

const noKey = "its frames are sealed, and this NIC has no key: set Config.Key or " + EnvKeyFile

// hint returns what is known about the key of a station that does not answer, with "; " in front,
// or "".
func (n *NIC) hint(station ethertype.MAC) string {
	why := ""
	if l, ok := transport.As[*seal.Link](n.m.Link); ok {
		why = l.Hint(station)
	} else if _, _, known := n.sealedBy.Get(station); known {
		why = fmt.Sprintf("%v: %s", station, noKey)
	}
	if why == "" {
		return ""
	}
	return "; " + why
}
