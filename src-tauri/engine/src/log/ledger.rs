//! The ledger of processes, kept in the store.

use super::Log;
use crate::error::Result;
use crate::process::{Ledger, LedgerEntry};
use async_trait::async_trait;
use rusqlite::params;

#[async_trait]
impl Ledger for Log {
    async fn note(&self, mut entry: LedgerEntry) -> Result<()> {
        // A command is its own label.
        self.mask().clean(&mut entry.label);
        // A store that takes nothing for now must not keep a process from being ended: the note is on its way.
        let noted = self.submit(move |writing| {
            writing
                .sql
                .prepare_cached(
                    "INSERT OR REPLACE INTO process (marker, label, pid, started, boot) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![entry.marker, entry.label, entry.pid, entry.started.cast_signed(), entry.boot])?;
            Ok(())
        });
        self.unless_troubled(noted).await.unwrap_or(Ok(()))
    }

    async fn strike(&self, marker: &str) -> Result<()> {
        let marker = marker.to_owned();
        let struck = self.submit(move |writing| {
            writing.sql.prepare_cached("DELETE FROM process WHERE marker = ?1")?.execute([&marker])?;
            Ok(())
        });
        self.unless_troubled(struck).await.unwrap_or(Ok(()))
    }

    async fn open_entries(&self) -> Result<Vec<LedgerEntry>> {
        self.ask(|sql| {
            sql.prepare_cached("SELECT marker, label, pid, started, boot FROM process ORDER BY rowid")?
                .query_and_then([], |row| {
                    Ok(LedgerEntry {
                        marker: row.get(0)?,
                        label: row.get(1)?,
                        pid: row.get(2)?,
                        started: row.get::<_, i64>(3)?.cast_unsigned(),
                        boot: row.get(4)?,
                    })
                })?
                .collect()
        })
        .await
    }
}
