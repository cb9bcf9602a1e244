package endpoint

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// translation is an entry of the translation table that is in use.
type translation struct {
	to     Name
	tag    Tag
	client *client // nil until the first message, and when its connection broke
	last   *client // of the connection that broke, see stall.go
}

// Map assigns an endpoint and a tag to index i of the translation table (AM_Map). Messages to
// the index carry the tag. Map returns at once and does not check that the endpoint exists:
// the first message makes the connection. The errors are ErrArgument for an
// index outside the table and ErrInUse for an index in use.
func (ep *Endpoint) Map(i int, to Name, tag Tag) error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	switch {
	case ep.freed:
		return ep.gone()
	case i < 0 || i >= len(ep.translations):
		return provider.OpError("map", ErrArgument, "index %d is not in 0..%d: SetNumTranslations makes the table larger", i, len(ep.translations)-1)
	case ep.translations[i] != nil:
		return provider.OpError("map", ErrInUse, "index %d stands for %v: unmap it first", i, ep.translations[i].to)
	}
	ep.translations[i] = &translation{to: to, tag: tag}
	return nil
}

// MapAny maps the lowest free index and returns it (AM_MapAny). It returns ErrResource if the table
// is full.
func (ep *Endpoint) MapAny(to Name, tag Tag) (int, error) {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	if ep.freed {
		return 0, ep.gone()
	}
	for i, t := range ep.translations {
		if t == nil {
			ep.translations[i] = &translation{to: to, tag: tag}
			return i, nil
		}
	}
	return 0, provider.OpError("map any", ErrResource, "all %d translations are in use: SetNumTranslations makes the table larger", len(ep.translations))
}

// Unmap frees an index (AM_UnMap). Requests in flight end as if it were still mapped, and then the
// connection is closed. The error is ErrResource if the index is not in use.
func (ep *Endpoint) Unmap(i int) error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	t, err := ep.translation("unmap", i)
	if err != nil {
		return err
	}
	ep.translations[i] = nil
	if t.client != nil {
		t.client.detach()
	}
	ep.bundle.changed()
	return nil
}

// Translation returns the name and tag that index i is mapped to (AM_GetTranslationName,
// AM_GetTranslationTag, AM_GetTranslationInuse). The error is ErrResource if it is not in use.
func (ep *Endpoint) Translation(i int) (Name, Tag, error) {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	t, err := ep.translation("translation", i)
	if err != nil {
		return Name{}, 0, err
	}
	return t.to, t.tag, nil
}

func (ep *Endpoint) translation(op string, i int) (*translation, error) {
	switch {
	case i < 0 || i >= len(ep.translations):
		return nil, provider.OpError(op, ErrArgument, "index %d is not in 0..%d", i, len(ep.translations)-1)
	case ep.translations[i] == nil:
		return nil, provider.OpError(op, ErrResource, "index %d is not in use", i)
	}
	return ep.translations[i], nil
}

// NumTranslations returns the size of the translation table
// (AM_GetNumTranslations).
func (ep *Endpoint) NumTranslations() int {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	return len(ep.translations)
}

// SetNumTranslations changes the size of the translation table, to at least 256 and at most
// MaxTranslations (AM_SetNumTranslations). It fails with ErrInUse if this would remove an index in
// use.
func (ep *Endpoint) SetNumTranslations(size int) error {
	ep.node.mu.Lock()
	defer ep.node.mu.Unlock()
	if size > MaxTranslations {
		return provider.OpError("set number of translations", ErrArgument, "%d is over the limit of %d", size, MaxTranslations)
	}
	size = max(size, defaultTranslations)
	for i := size; i < len(ep.translations); i++ {
		if ep.translations[i] != nil {
			return provider.OpError("set number of translations", ErrInUse, "index %d is in use", i)
		}
	}
	table := make([]*translation, size)
	copy(table, ep.translations)
	ep.translations = table
	return nil
}

// connect returns the connection of t, making it if there is none.
func (ep *Endpoint) connect(i int, t *translation) (*client, error) {
	if t.client != nil {
		return t.client, nil
	}
	n := ep.node
	k := n.cfg.Credits
	c := &client{ep: ep, tr: t, to: t.to, index: i, credits: k, medium: n.cfg.MaxMedium,
		slots: make([]slot, k.total()), pools: k.pools()}
	way := n.loop
	if t.to.Addr != n.way.Addr() {
		way = n.way
	}
	h := wire.Hello{From: ep.Name(), ID: t.to.ID, Incarnation: t.to.Incarnation, Shape: k.shape(n.cfg.MaxMedium)}
	t.client = c
	ep.clients.add(c)
	ch, err := way.Dial(t.to, h, c)
	c.ch = ch
	if err != nil {
		t.client = nil
		ep.clients.remove(c)
		return nil, err
	}
	return c, nil
}
