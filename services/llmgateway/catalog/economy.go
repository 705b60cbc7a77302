package catalog

// Economy reports whether batches' questions of the route may go through the batch API of its provider.
func (c *Catalog) Economy(route string) bool { return c.routes[route].Economy == BatchAPI }
