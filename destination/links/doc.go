// Package links watches the clusters that credential Secrets link (D section 3.4).
package links
