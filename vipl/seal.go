package vipl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
)

// The environment variables that give the key of sealed frames to every NIC that Open
// opens without Config.Key and Config.Link: the path of a key file, or the key itself, which
// other programs of the same user can read there. At most one of them is set.
//
//	bobnet key > /etc/bobnet.key && chmod 600 /etc/bobnet.key && export BOBNET_KEY_FILE=/etc/bobnet.key
const (
	EnvKeyFile = "BOBNET_KEY_FILE"
	EnvKey     = "BOBNET_KEY"
)

// KeyWanted returns the source of keys that the environment names, nil if it names none.
func KeyWanted() (seal.Source, error) {
	path, text := os.Getenv(EnvKeyFile), os.Getenv(EnvKey)
	switch {
	case path != "" && text != "":
		return nil, opError("read "+EnvKeyFile, ErrInvalidParameter, "%s is set, too: leave one of them out", EnvKey)
	case path != "":
		return seal.File(path), nil
	case text != "":
		return seal.Text(text), nil
	}
	return nil, nil
}

// sealing is how the links of a NIC are sealed.
type sealing struct {
	cfg *Config
	err error // of the last link that could not be
}

// sealingOf returns how cfg has links sealed.
func sealingOf(cfg *Config) (*sealing, error) {
	with := *cfg
	if cfg.Key == nil && cfg.Link == nil {
		var err error
		if with.Key, err = KeyWanted(); err != nil {
			return nil, err
		}
	}
	if with.Key == nil {
		return &sealing{}, nil
	}
	if cfg.AnyUser {
		return nil, opError("open NIC", ErrInvalidParameter, "Config.AnyUser shares memory with users who need no key, and there is one: use one or the other")
	}
	if err := seal.Check(with.Key); err != nil {
		return nil, fmt.Errorf("vipl: open NIC: %w: %w", ErrInvalidParameter, err)
	}
	return &sealing{cfg: &with}, nil
}

// wrap returns link sealed, if that is wanted and link is no memory. If it cannot be, it
// returns link, and result says why.
func (s *sealing) wrap(link transport.Link) transport.Link {
	if s.cfg == nil || link.Info().SameHost {
		return link
	}
	opts := seal.Options{Keys: s.cfg.Key, Logger: s.cfg.Logger}
	if info := link.Info(); info.Virtual {
		var seed [32]byte
		binary.BigEndian.PutUint64(seed[:], s.cfg.Seed)
		copy(seed[8:], info.MAC[:])
		binary.BigEndian.PutUint64(seed[16:], uint64(link.Now())) // another incarnation has other numbers
		opts.Random = rand.NewChaCha8(seed)
	}
	sealed, err := seal.New(link, opts)
	if err != nil {
		s.err = fmt.Errorf("vipl: open NIC: %w", err)
		return link
	}
	return sealed
}

// result returns the link and the error of a call that has used wrap.
func (s *sealing) result(link transport.Link, err error) (transport.Link, error) {
	if err == nil && s.err != nil {
		link.Close()
		return nil, s.err
	}
	return link, err
}

// SealStats returns what the NIC's link counts of sealed frames, and reports whether they
// are sealed.
func (n *NIC) SealStats() (stats seal.Stats, sealed bool) {
	l, ok := transport.As[*seal.Link](n.m.Link)
	if !ok {
		return seal.Stats{}, false
	}
	return l.SealStats(), true
}

// foreignSealed is the stations whose frames are sealed, as a NIC without a key knows them.
// Anybody can seem to be one, so it decides nothing.
type foreignSealed map[ethertype.MAC]bool

// maxForeignSealed bounds what is kept, and logged.
const maxForeignSealed = 64

// receiveSealed is called with a frame that this NIC cannot open, because it has no key, and
// says so once for each station.
func (n *NIC) receiveSealed(frame []byte) {
	src := ethertype.MAC(frame[ethertype.OffsetSrc:])
	if n.sealedBy[src] || len(n.sealedBy) >= maxForeignSealed {
		return
	}
	if n.sealedBy == nil {
		n.sealedBy = foreignSealed{}
	}
	n.sealedBy[src] = true
	n.log.Warn("a station is not understood", "station", src, "why", noKey)
}

const noKey = "its frames are sealed, and this NIC has no key: set Config.Key or " + EnvKeyFile

// hint adds to what is said of a station that does not answer what is known of its key.
func (n *NIC) hint(detail string, station ethertype.MAC) string {
	why := ""
	if l, ok := transport.As[*seal.Link](n.m.Link); ok {
		why = l.Hint(station)
	} else if n.sealedBy[station] {
		why = fmt.Sprintf("%v: %s", station, noKey)
	}
	if why == "" {
		return detail
	}
	return detail + "; " + why
}
