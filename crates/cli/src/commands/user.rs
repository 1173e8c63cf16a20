//! `astrago user`.

use anyhow::Result;
use astrago_rest::model::{CreatedUser, NewUser, User};

use crate::args::{Connection, Format, UserCommand};
use crate::client::{Client, escape};
use crate::output::{self, dash};

pub(crate) async fn user(
    connection: &Connection,
    format: Format,
    command: &UserCommand,
) -> Result<()> {
    let client = Client::connect(connection).await?;
    match command {
        UserCommand::Add {
            name,
            admin,
            rotate,
        } => {
            let wanted = NewUser {
                name: name.clone(),
                admin: *admin,
                rotate: *rotate,
                namespace: connection.namespace.clone(),
            };
            let made: CreatedUser = client.post("/api/users", &[], Some(&wanted)).await?;
            output::print(format, &made, |_| {
                format!(
                    "user:      {}\nnamespace: {}\ntoken:     {}\n\nThe token is shown this once.\n",
                    made.name, made.namespace, made.token
                )
            })
        }
        UserCommand::List => {
            let users: Vec<User> = client.get("/api/users", &[]).await?;
            output::print(format, &users, |_| {
                let row = |user: &User| {
                    let admin = if user.admin { "yes" } else { "no" };
                    vec![
                        user.name.clone(),
                        dash(user.namespace.clone()),
                        admin.to_owned(),
                    ]
                };
                let rows: Vec<Vec<String>> = users.iter().map(row).collect();
                output::table(&["NAME", "NAMESPACE", "ADMIN"], &rows)
            })
        }
        UserCommand::Remove { name } => {
            let gone: serde_json::Value = client
                .delete(&format!("/api/users/{}", escape(name)), &[])
                .await?;
            output::print(format, &gone, |_| format!("removed {name}\n"))
        }
    }
}
